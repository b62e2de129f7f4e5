import sys, time
import mindspore
mindspore.set_device(sys.argv[1])
mindspore.set_context(save_graphs_path='/tmp/msgraphs')
import models
d=getattr(mindspore, sys.argv[3])
for n in sys.argv[4].split(','):
  for o in sys.argv[5].split(','):
        t=time.time()
        try:
            print(sys.argv[1:3], n, o, models.losses(n, o, sys.argv[2], d), round(time.time()-t,2), flush=True)
        except Exception as e:
            print(sys.argv[1:3],n,o,'FAILED',str(e)[:1500], flush=True)
