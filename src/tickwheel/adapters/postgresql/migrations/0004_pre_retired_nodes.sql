-- So that rows of processes that ended long ago can go: when upkeep first saw that the node is deposed.
ALTER TABLE tickwheel.nodes ADD COLUMN deposed_ms int8;
