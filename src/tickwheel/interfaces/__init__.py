"""HTTP, CLI and client: the outside of Tickwheel."""
