"""The Python side of the runtime server: a warm parent, and a fresh process forked from it for every call.

The runtime server sends these sources to a bare interpreter over its standard input, so that nothing which user code can write is
ever imported by the parent. The modules:

* ``parent`` keeps one interpreter warm and forks spares of it;
* ``child`` is the life of one call's process;
* ``body`` reads the call's pickles;
* ``output`` are its standard streams;
* ``wire`` writes the frames that it answers with;
* ``outcome`` turns a result or an exception into frames;
* ``native`` calls the C library;
* ``bytecode`` tells which Python compiled a function.
"""
