"""What is sent to open pages while it happens: server-sent events.

A *feed* looks into the ledger, once for all who listen (`broadcast`), and only while somebody does.
Each listener is a response that goes on (`stream`): bounded in number, in what waits for it, and in
time; a slow one is dropped, and comes back by itself. `static/live.js` is the other side.
"""
