"""The TrainingJob API: one typed source for the CRD, its validation and its status."""
