"""Where a job's numbers go beside its status: TensorBoard's files, or any function such as wandb's."""
