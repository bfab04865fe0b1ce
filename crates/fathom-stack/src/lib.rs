//! Storage stacks of Fathom: images, file systems, mounts, and what this machine can make.
