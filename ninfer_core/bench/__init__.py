"""Measures a program or a server, and checks in the same run that what was measured is right.

Owns: what is measured and how, the checks, the files of results, their picture. It drives the program through the
contract that the engine drives it through, and a server over HTTP. No figure is written without the check that covers
it, and none of a run in which that check failed.
"""
