"""How values are written for the wire: codecs of fixed size, told in advance."""
