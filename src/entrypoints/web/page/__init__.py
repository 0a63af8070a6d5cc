"""The page: what operators look at and change, rendered here, out of the views of the use cases.

Start reading at `pages`. It needs the extra `web`; only `application` imports it.

To add a view: a class in `views/` whose methods are below `shows` or `acts`, a template beside the
others that extends `base.html`, and the class in `routes`; where it is to be in the navigation, its
line in `rendering.WAYS`. What use cases raise becomes a page by itself. Templates have the filters
of `times` and `pictures`, and the macros of `macros.html`; no style and no script stands in them.
"""
