"""Views: flat values from which tables and JSON are made, here and over HTTP.

Moments are in UTC, durations numbers with the unit in their name, params and errors JSON values.
"""
