"""Everything that Tickwheel does with PostgreSQL; needs the extra `postgresql`."""
