"""The words of docs/sceptic.md; `sceptic` puts the figures into them. Torch-free."""

from __future__ import annotations

WAITS = "*No figures yet: they wait for {what}.*"

GROWTH = """\
The model takes three steps in each of its three layers. Over all nine a difference grows by a factor of
exp(3 · ({each})) ≈ {factor}, if the maps between the layers neither stretch nor shrink it. So much less than a grey
level is enough to end in another state, and a gradient says little about what lies beside it."""

IN_16_BITS = """

The figures of `cifar10-conv` were measured with its weights in 16 bits; the commands load the 8 bits that the package
holds. On 1,000 validation pictures, from the same starts, {bits16} and {bits8} % of the answers are right
(`benchmarks/stored_weights.py`). Under attack the two were not compared, so expect small differences."""

BEFORE = """\
*Not all models on this page were trained after the [corrections](../RESULTS.md) of 18 November 2026
([results/robustness.md](../results/robustness.md) says which). Their figures change as records of later trainings
arrive.*"""

TEXT = """\
# For a sceptic: is the robustness real?

**In our reproduction it is not. The attack that the paper reports leaves {shipped} % of our model's answers right (in
the paper {rand.paper} %). The same attack with a better gradient leaves {shipped_last} %, and an attack on one fixed
start leaves {fixed} %.** These are figures of `cifar10-conv`, the model that ships, so you can check them in an hour.
It was trained for the paper's 400 epochs and for 80 more. A model of 400 epochs alone, which does not ship, keeps
{rand} and {last} %. The paper's weights are not public, so this page is about models that we trained by its
description.{before}

## The claim

The paper trains a classifier of CIFAR-10 on clean pictures only. Its oscillators start at random, so the model is a
random function. Under AutoAttack (`rand`, each gradient the mean over 20 starts) with changes of at most 8/255 it keeps
{rand.paper} %, where a ResNet-18 keeps nothing. Without the projection Proj it keeps 0.1 %.

## The attack, in ten lines

A layer takes T = 3 steps x ← Π[x + γ(Ωx + Proj(C + Jx))], and the picture acts on each of them through C. The steps are
chaotic, so a gradient through all of them is valid over less than a grey level and for one start only. But how the
*last* step responds to C, with the state before it held fixed, is smooth. So the attack uses only that gradient. The
forward pass does not change: the adversarial pictures are judged by the model as it is, from starts that the attack has
not seen.

```python
import torch
import torch.nn.functional as F
import akorn
from akorn.robustness.adaptive import last_steps

model = akorn.create_model("cifar10-conv", pretrained=True).eval()


def attack(images, labels, epsilon=8 / 255, steps=50, starts=20):
    x = images.clone()
    for _ in range(steps):
        x.requires_grad_()
        with last_steps(model):  # backward: the last Kuramoto step of each layer alone
            loss = sum(F.cross_entropy(model(x), labels, reduction="sum") for _ in range(starts))
            (gradient,) = torch.autograd.grad(loss, x)
        x = x.detach() + 2.5 * epsilon / steps * gradient.sign()
        x = x.clamp(images - epsilon, images + epsilon).clamp(0, 1)
    return x


pictures, labels = torch.rand(2, 3, 32, 32), torch.tensor([3, 5])  # put CIFAR-10's here
print(model(attack(pictures, labels, steps=1, starts=1)).argmax(1))
```

## The commands

```
pip install -c constraints.txt '.[attacks]'
attack() {{ akorn eval "$1" --data cifar-10-batches-py --precision tf32 --attack-limit 1000 --attacks "$2"; }}
attack cifar10-conv autoattack                           # as the paper runs it
attack cifar10-conv autoattack-adaptive,pgd-adaptive     # with gradients of the last step
attack cifar10-conv autoattack-standard                  # with one start fixed
python examples/adversarial.py                           # our own drawings, on a CPU
```

On an H200 the three evaluations took {shipped_seconds}, {shipped_last_seconds} and {fixed_seconds} seconds. Without a
GPU, compare two short attacks, which take some minutes on two CPU cores:

```
akorn eval cifar10-conv --data cifar-10-batches-py --limit 100 --attacks pgd,pgd-adaptive \\
  --attack-limit 32 --attack-steps 10 --eot 4
```

With gradients through all steps (`pgd`) most of the 32 pictures should stay right; with those of the last step
(`pgd-adaptive`) well under half of them. Ten steps are few, and one picture is 3 %: only the gap between the two
counts.{in_16_bits}

![Eight drawings and what the attack makes of them; the model now gives other answers](images/adversarial.png)

*`python examples/adversarial.py`: the same attack within 64/255. CIFAR-10's pictures are not ours to show; `akorn eval
… --attacks pgd-adaptive --plots DIR` draws the same figure of them.*

## The figures

Accuracy in percent, on 1,000 test pictures at 8/255 unless a row says otherwise; one training each. The first column is
the model that the commands load.

{attacks}

The third is a model that was *trained* with gradients of the last step: it has no defence at all, and AutoAttack as
the paper runs it still reports {undefended} % (with the better gradient {undefended_last} %). On a chaotic model such a
figure is no evidence.

## Why: the layers are chaotic

The largest Lyapunov exponent λ of each layer of `cifar10-conv`, per step (`benchmarks/lyapunov.py`). If λ is
above 0, a difference, and so a gradient, grows by a factor of exp(λ) in every step. The model was trained with γ = 1.
The untrained layers have the same shapes and random weights. All are means over two to four validation pictures. A
trained model without Proj is measured by
`python benchmarks/lyapunov.py --data cifar-10-batches-py --kinds trained --record results --model MODEL`.

{exponents}{growth}

How far a gradient of an *untrained* network is valid: the cosine, in percent, between gradients a quarter of a grey
level apart (`benchmarks/gradients.py --untrained`). Chaos comes with the large steps, before any training.

{gradients}

## With and without Proj, and with smaller steps

The paper's ablation is the sharpest test. If hidden gradients were all there is, a model without Proj, whose gradients
are at least as rough, should survive the same attack; the paper reports 0.1 %. Smaller steps are the other test: at
γ = 0.1 there is hardly any chaos, so AutoAttack as the paper runs it should find what it misses at γ = 1. All by one
protocol of 100 epochs ([robustness.md](robustness.md), “Validation pictures”):

{steps}

The figures come from these commands, the last one for each of the models:

```
python benchmarks/common_protocol.py trials --data cifar-10-batches-py --rows akorn-conv no-proj
python benchmarks/common_protocol.py final --data cifar-10-batches-py --rows akorn-conv no-proj
attack runs/common/RUN/model autoattack,autoattack-adaptive  # defined above
```

For γ = 0.5 the first two also get `--runs runs/gamma-0.5 --model.gamma 0.5`, and for γ = 0.1 likewise.

## What remains true

All of `cifar10-conv`, on all 10,000 test pictures, with one random start for an answer and with the mean over sixteen.

- **Random noise.** With ±64/255 on every value, {noise1} % of the answers are right from one start and {noise16} % from
  sixteen: {noise_gain} points are the mean over starts. ResNet-18 has {noise_resnet} %. Neither has seen noise in
  training. A ResNet-18 that has, and adds noise to its own input, has {noisy_noise1} and {noisy_noise16} %.
- **Corruptions.** On average over fifteen kinds {right1} % are right from one start and {right16} % from sixteen:
  {right_gain} points are the mean over starts. ResNet-18 has {corrupted_resnet} %. The corruptions come from our own
  generator.
- **Calibration, by the mean over starts.** On corrupted pictures the calibration error is {ece1} from one start and
  {ece16} from sixteen. The ResNet-18 that adds noise to its own input has {noisy_ece1} and {noisy_ece16}: averaging
  over random starts calibrates it too.

## What would change our mind

A model of this kind, trained by anybody, that keeps its accuracy under `autoattack-adaptive` and passes
`akorn eval MODEL --checks`. [Robustness and calibration](robustness.md) explains the checks, and
[results/robustness.md](../results/robustness.md) has all tables. All figures here come from the records in `results/`,
through `python -m results.pages`.
"""
