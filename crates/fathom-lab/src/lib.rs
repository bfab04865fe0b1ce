//! Experiments, plan, runs, results and statistics of Fathom.
