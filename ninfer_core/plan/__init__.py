"""Options in, frozen plan out: nothing here touches a device, and nothing here imports torch."""
