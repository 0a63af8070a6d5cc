"""Declaring what is needed without harming what is there, and looking at it."""
