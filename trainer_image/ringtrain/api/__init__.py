"""What training code of your own calls: the parts behind `ringtrain.Context`."""
