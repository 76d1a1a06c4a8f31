"""libcurl on an asyncio loop, for all adapters that speak HTTP: `curl_loop`, and `exchanges` for small answers."""
