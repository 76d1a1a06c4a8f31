"""The Python clients: a blocking one and one for asyncio. `import tickwheel` gives both."""
