"""The page: what operators look at and change, rendered here, out of the views of the use cases.

Start reading at `routes`. It needs the extra `web`; only `application` imports it.

To add a view: one module in `views/` with a `routes(pages)` that answers its routes, one template
beside the others that extends `base.html`, and its line in `routes.VIEWS`; where it is to be in
the navigation, its line in `rendering.WAYS`. A handler takes a request, asks with `pages.ask`, and
ends with `pages.render` (what is looked at) or `pages.done` (what was changed: it redirects, with
a word about it). What use cases raise becomes a page by itself. Templates have the filters of
`times` and `pictures`, and the macros of `macros.html`; no style and no script stands in them.
"""
