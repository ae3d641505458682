"""The other decisions: each public function makes Strandline decide a question of meaning the other way.

`tests/decisions.yaml` names, for each question, a transcript that must fail under the mutant. A mutant changes as
little as it can, in the kernel, the oracle or the source; where it changes both runners, both must be caught.
"""
