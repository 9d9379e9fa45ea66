"""Kubernetes: detect says whether a kubelet is here, client which pod holds which GPU."""
