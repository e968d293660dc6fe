"""How strong the tests are: faults planted into the product one at a time, and how many of them the suite finds."""
