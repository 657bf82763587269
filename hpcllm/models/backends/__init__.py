"""Generation back ends behind one protocol, one module per engine."""
