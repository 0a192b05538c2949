//! Nothing: the manifest beside this only names a source to fetch.
