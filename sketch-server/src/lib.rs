//! Diagnosis campaigns: refinement, predictors, ranking, sketches, storage, HTTP.
