"""The crash test: real processes, kill -9 at random moments, and a checker that knows nothing of the product.

Nothing here imports Tickwheel: the load goes in over HTTP, the verdict comes from the API's answers and from the
log of a sink in a process of its own.
"""
