"""Torch's own autograd graph behind Paddle's tensors: the tape.

* :mod:`.clean`: Paddle's functions that the tape is built with, whatever is patched.
* :mod:`.twins`: the torch tensor behind a Paddle tensor, and the sentinel through which Paddle's engine finds it.
* :mod:`.leaves`: where torch's graph begins, and how gradients come from there to Paddle.
* :mod:`.calls`: one call's part in a backward.
* :mod:`.backward`: torch's engine over the twins, Paddle's over everything else, in turns.
* :mod:`.partial`: the same for ``paddle.grad``.
* :mod:`.watching`: hooks and retained gradients of tensors on the tape; :mod:`.unused`: where no gradient arrives.
* :mod:`.islands`: a native op as one node of torch's graph; :mod:`.writes`: one that writes into a tensor; :mod:`.operands`: what
  they are given.
* :mod:`.views`: a view on both sides.
* :mod:`.nodes`: Paddle's own graph, looked at without running it; :mod:`.reducers`: who else looks at it.
* :mod:`.seats`: a sentinel for a tensor that has another node.
"""
