"""The requests that make and change jobs: read strictly, every problem named, and fast when there is none."""
