"""Three steps of a training in Paddle, as CI runs them."""

import original
import paddle
import port

paddle.seed(0)
model = port.Classifier()
optimizer = paddle.optimizer.AdamW(parameters=model.parameters())
tokens, labels = paddle.to_tensor(original.batch()), paddle.arange(8) % 4
for _ in range(3):
    loss = paddle.nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
