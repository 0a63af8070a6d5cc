"""Requests to servers of others. Start reading at `client`."""
