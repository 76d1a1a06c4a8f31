"""What etcd and Consul have in common as coordinators.

Both are a small store of keys whose every change has a revision: `keys` is what is asked of it, `coordinator`
makes beats and locks out of that, `address` reads the URL, `http_calls` fails over between servers.
"""
