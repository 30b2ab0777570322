"""For tests of plugins and of the core: conformance suites, plugin packages made on the spot, scripted parts."""
