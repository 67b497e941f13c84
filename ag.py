import torch, tilewright as tw, numpy as np
from torch.export import Dim
class M(torch.nn.Module):
    def __init__(s,al): super().__init__(); s.al=al
    def forward(s,x,t):
        g=torch.ops.aten.affine_grid_generator(t,[x.shape[0],3,x.shape[2],x.shape[3]],s.al)
        return torch.nn.functional.grid_sample(x,g,align_corners=s.al)
for al in (False,True):
    x=torch.randn(2,3,8,10); t=torch.randn(2,2,3)
    b=Dim("b")
    ep=torch.export.export(M(al),(x,t),dynamic_shapes=({0:b,2:Dim("h"),3:Dim("w")},{0:b}))
    m=tw.build(tw.graph.from_torch(ep)); 
    for sh in ((2,8,10),(1,1,7),(3,5,1)):
        x=torch.randn(sh[0],3,*sh[1:]); t=torch.randn(sh[0],2,3)
        print(abs(m(x.numpy(),t.numpy())[0]-M(al)(x,t).numpy()).max())
