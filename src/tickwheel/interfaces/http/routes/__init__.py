"""The handlers, one module per kind of thing. Each gives its endpoints as (method, path) -> handler."""
