"""`ringtrain doctor`: gathers facts about a cluster, and says what is wrong and how to mend it.

`gather` asks; `checks` are pure functions of the facts, a file for each cause, each with a twin test.
"""
