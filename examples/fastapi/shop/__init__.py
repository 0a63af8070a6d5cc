"""A shop with an API: `cronhare up --app shop.jobs:app`, and `uvicorn shop.api:api` beside it."""
