"""The console: web pages on the HTTP port of every node, at `/console/`.

    browser ── cookie with a delegated token ──> the node that serves the page
                                                      │  a native client with this token (clients.py)
                                                      v
                                        all nodes of the cluster, which check the rights

The console has no rights of its own. It calls the nodes as the user who has logged in, so the nodes refuse what the
user may not do, and the audit log has the user's name. A page leaves out what the user may not do.

    console.py          the routes, the check of each request, and the pages of errors
    logins.py           login, the cookie, and the proof that a form comes from a page of the console
    forms.py            reads the forms of browsers
    clients.py          the native clients, one for each login
    watched.py          work that is done again and again while a browser looks
    watch.py            asks all nodes twice a second while a browser looks, once for all browsers of a user
    lookout.py          asks one other question again and again while a browser looks, such as how a group is
    picture.py          what the nodes have said, as one picture of the cluster
    bars.py             the drawing of a replica's log
    timeline.py         the drawing of a shard's recent elections
    reading.py          reads messages of a queue without a consumer group
    tail.py             follows the newest messages of a topic
    new_message.py      makes a test message of a form
    message_files.py    the files of downloads: JSON lines and Parquet
    places.py           bounds how many pages read messages at the same time
    shown_value.py      shows bytes of strangers as JSON, text or hexadecimal
    topic_groups.py     the groups that read a topic
    group_view.py       what the pages of groups show
    resends.py          resends of dead letters that users have begun
    plans.py            what an operation would do, for the page before the button
    placement_plans.py  the same for drains, balances and pauses
    form_values.py      reads times, offsets and queues that users write
    paging.py           one page of a long list
    rates.py            messages and bytes a second, from the counters of the nodes
    charts.py           charts of rates over time, as images
    live.py             sends changed parts of a page to the browsers, as server-sent events
    page.py             renders templates
    pages/              one module for each page
    templates/          the pages (jinja2)
    static/             the style, and the scripts of the browser
"""
