"""How attacks and noise are measured, unless somebody says otherwise: the defaults of `akorn eval`, and what the tables
of RESULTS.md ask of a record. Torch-free.
"""

EPSILON = 8 / 255
"""Size of attacks in the ℓ∞ norm, for pixels from 0 to 1 (Tab. `advrobust`)."""
NOISE = 64 / 255
"""Size of random noise, and of the adversarial pictures that are shown (Fig. `robustness`)."""
EOT = 20
"""Random starts over which an attack averages its gradients."""
STEPS = 50
"""Steps of PGD."""
QUERIES = 5000
"""Queries of Square."""
ATTACKED = 1000
"""Pictures, drawn at random, that an attack of the tables has to be scored on."""
CHECKED = 200
"""Pictures of the checks of a defence."""
