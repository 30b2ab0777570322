"""The core of ninfer: plans, plugins, engine, program and serving."""
