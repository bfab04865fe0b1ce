//! The workloads of Fathom and the engines that execute them.
