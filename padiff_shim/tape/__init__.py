"""Torch's own autograd graph behind Paddle's tensors: the tape. Its words are explained here, once.

twin
    The Torch tensor behind a Paddle tensor that wants gradients, over the same memory, with Torch's graph behind it (`twins`).
leaf twin
    A twin where Torch's graph begins: of a parameter, of another leaf, or of a *frontier*, a tensor that Paddle's own nodes
    computed. Its gradient goes back to Paddle through its *entrance*, a Paddle tensor with an edge to the leaf (`twins`).
sentinel
    A Paddle tensor whose own node is one float wide and carries a hook. Whoever reaches it with Paddle's engine arrives at the
    twin; ``is_leaf``, ``stop_gradient`` and ``grad_fn`` are as natively (`twins`, `hooks`).
island
    A native call over tensors of the tape: one node of Torch's graph, whose backward runs Paddle's engine (`islands`).
inlet
    Where an operand enters an island: the hook of the alias that stands for the operand.
turn
    One run of Torch's engine over the twins that Paddle's engine has reached; a backward alternates between the two (`backward`).
session
    One backward in one thread, with all its turns.

The files: `paddle_graph` is Paddle's own engine and graph, `calls` what one call keeps for a backward, `twins` the tensors, `views`
views on both sides, `hooks` hooks and retained gradients, `islands` native calls, `backward` a backward and ``paddle.grad``.
"""
