"""The views: classes whose methods are pages, or actions of their forms."""
