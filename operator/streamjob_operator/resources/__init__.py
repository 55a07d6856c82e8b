"""The resources that people write and the controller answers on: models, and the CRDs made from them."""
