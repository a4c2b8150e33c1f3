"""One definition per operator and version, in files by family."""
