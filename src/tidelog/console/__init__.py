"""`tidelog console`: a web page for one cluster, Tidelog or Apache Kafka.

`server` serves it. `observer.Observer` watches the cluster, `routes.ROUTES` is the table of everything that a page may
request, and `safety.Gate` refuses requests that do not come from the page. The page itself is in `static`: modules and
a style sheet that the browser loads as they are.

Rules: only a route with `changes` changes the cluster, and it needs `--allow-changes`; without the token nothing is
served but the files of the page, which contain nothing about the cluster; everything that is kept or read has a limit.
"""
