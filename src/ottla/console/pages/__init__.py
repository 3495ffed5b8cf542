"""The pages, one module each: a function that fills a page, and pure functions that make HTML of what was found."""
