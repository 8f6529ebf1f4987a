"""Each hazard that the linter tells of, provoked: what is configured, what is done, and what comes of it.

A proof names a code and what is changed in a clean configuration; the linter has to find exactly that code in what is
run. Then the hazard has to show, and must not where the change is fixed. By how they are run:

- ``proven_by_asking``: a Connect worker is asked, and refuses;
- ``proven_by_routing``: rows go through Debezium's own router and Connect's own converters, in one JVM;
- ``proven_by_running``, ``proven_by_messages``, ``proven_by_slots``, ``proven_in_pairs``, ``proven_on_mariadb``:
  connectors run on the stack;
- ``proven_by_an_outage``: they run, and the broker does not answer for seconds.

What cannot be provoked here is in ``unproven``, each with the reason or what was tried.
"""
