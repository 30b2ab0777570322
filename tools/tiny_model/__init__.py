"""The embedded model `ninfer-tiny`: dialogue generator, tokenizer, trainable network, training and evaluation."""
