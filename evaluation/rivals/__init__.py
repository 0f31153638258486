"""Other ways to write checkpoints, beside forebay and native h5py, in one run."""
