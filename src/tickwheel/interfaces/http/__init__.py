"""The HTTP API: an ASGI application over the services, and the server that carries it."""
