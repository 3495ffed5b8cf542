"""The routes, by what they are about. A route reads what was sent, calls one part of the API, and answers."""
