"""The stages of an image: encode the prompt, denoise, decode. Each can run in a thread of its own."""
